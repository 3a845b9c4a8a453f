"""The script for spark-submit. The job itself is in the archive of modules that each job gets."""

from tidegate.spark.job import main

if __name__ == "__main__":
    main()
