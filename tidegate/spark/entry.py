"""What spark-submit is given. The job itself comes with the archive of modules that each job is given."""

from tidegate.spark.job import main

if __name__ == "__main__":
    main()
