"""Every ReLU becomes a SiLU, in whatever form it is written."""
