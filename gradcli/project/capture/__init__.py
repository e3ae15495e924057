"""`gradcli run`: a program runs as it is, and every hand-written gradient that it uses is recorded, to be checked later."""
