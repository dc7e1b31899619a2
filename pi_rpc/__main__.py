"""``python -m pi_rpc`` is the ``pi-rpc`` command."""

from pi_rpc.cli import main

if __name__ == "__main__":
    main()
