"""The documents as a site: pages that link to each other, to the sources they name, and to nothing on the network."""
