"""What spark-submit is given. The job itself is in the wheel, next to this file's folder."""

from tidegate.spark.job import main

if __name__ == "__main__":
    main()
