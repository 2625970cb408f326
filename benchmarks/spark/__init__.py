"""rowq through Spark, beside what one would write with Spark and PostgreSQL alone."""
