"""Record every captured graph: a Dynamo backend that keeps what it is handed."""
