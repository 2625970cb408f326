"""The client library of the gq spec: what it says of producers and consumers, in the words of rowq."""
