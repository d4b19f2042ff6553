"""`python -m espnet_diverse` is the `espnet-diverse` command."""

import sys

from espnet_diverse.bin.main import main

sys.exit(main())
