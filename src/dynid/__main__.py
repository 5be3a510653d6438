"""`python -m dynid` is the same as the command `dynid`."""

from dynid.cli.main import main

if __name__ == "__main__":
    main()
