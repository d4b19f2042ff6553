# How commands run on this machine. The parallel jobs of --nj share its cores, so each has one thread unless told
# otherwise; --nj, --ngpu and --cluster are options of run.sh.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# The cluster that preparation, statistics and decoding are spread over: local or slurm of
# conf/cluster, or a YAML file of yours; empty for this machine alone. docs/scale.md explains it.
cluster=
