# How commands run on this machine. The parallel jobs of --nj share its cores, so each has one thread by
# default; --nj, --ngpu and --cluster are options of run.sh.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# The cluster for preparation, statistics and decoding: local or slurm from conf/cluster, or your own
# YAML file; empty for this machine only. docs/scale.md explains it.
cluster=
