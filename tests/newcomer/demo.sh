# The first command of the README.
make demo
