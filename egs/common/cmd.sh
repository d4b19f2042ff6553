# How commands run on this machine. The parallel jobs of --nj share its cores, so each has one thread unless told
# otherwise; --nj and --ngpu are options of run.sh.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
