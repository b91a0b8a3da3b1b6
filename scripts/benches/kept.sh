#!/usr/bin/env bash
# Makes the files of results/bench again, in the root of the repository; a command alone makes one of them. Those that compare
# with an earlier commit (--before) need its history.
set -euo pipefail
F=results/bench
python -m venv /tmp/byzpy && /tmp/byzpy/bin/pip install byzpy==0.1.4
pip install --no-deps byzfl==0.0.11
python scripts/benches/bench_aggregators.py --n 25 115 --d 10000 199210 --threads 1 2 --repeats 3 --peers /tmp/byzpy \
    --csv $F/rules.csv --png $F
python scripts/benches/bench_aggregators.py --raced --shapes 25,2410 25,10000 --threads 1 --repeats 25 --peers /tmp/byzpy \
    --csv $F/rules_small.csv
FEW="average coomed trmean krum mkrum b_krum centered_clipping cge rfa boba"
python scripts/benches/bench_aggregators.py --n 500 --d 10000 199210 --threads 1 2 --repeats 2 --peers /tmp/byzpy --rules $FEW \
    --csv $F/rules_500.csv
python scripts/benches/bench_aggregators.py --n 25 115 500 --d 1200000 --threads 2 --repeats 2 --peers /tmp/byzpy --rules $FEW \
    --csv $F/rules_large.csv
python scripts/benches/bench_rounds.py --threads 1 2 --neighbours 0 2 --repeats 3 --csv $F/rounds.csv
python scripts/benches/bench_questions.py --repeats 15 --csv $F/questions.csv
python scripts/benches/bench_local_sgd.py --threads 1 2 --repeats 3 --csv $F/local_sgd.csv
python scripts/benches/bench_tables.py --rounds 1 --csv $F/tables.csv
python scripts/benches/bench_sweep.py --tiny 300 --stored 300
python scripts/benches/bench_stack.py --repeats 1 --rules --csv $F/stack.csv
python scripts/benches/bench_stack.py --repeats 1 --runs 2 --rules krum trmean --before e504b35 --csv $F/stack.csv
python scripts/benches/bench_gossip.py --repeats 3 --csv $F/gossip.csv
python scripts/benches/bench_models.py --threads 2 --repeats 1 --csv $F/models.csv --png $F
python scripts/benches/bench_models.py --models gru linear linear_regression mlp cnn cnn_glorot lenet brace_cnn byzfl_cnn femnist_cnn dropout_cnn \
    --threads 1 --repeats 3 --cpu --before d7f85a3 --csv $F/models_before.csv
for S in 600 64 16; do python scripts/benches/bench_models.py --models mlp --clients 100 --samples $S --threads 1 --repeats 9 \
    --cpu --csv $F/bfloat16_$S.csv; done
python scripts/benches/bench_rounds.py --before d7f85a3 --settings boba/cifar10 --threads 1 --repeats 3 --cpu \
    --set batch_size=32 attack=ipm num_byzantine=15 aggregator=trmean --csv $F/rounds_cifar10.csv
python scripts/benches/bench_rounds.py --before d7f85a3 --settings boba/ag_news --threads 1 --repeats 3 --cpu \
    --set batch_size=64 attack=ipm num_byzantine=54 aggregator=trmean --csv $F/rounds_ag_news.csv
python scripts/benches/bench_memory.py --csv $F/memory.csv
python scripts/benches/bench_workers.py --settings boba/cifar10 boba/mnist --csv $F/memory_workers.csv
python scripts/benches/bench_scaling.py --repeats 2 --csv $F/scaling.csv --png $F
python scripts/benches/bench_disk.py --shapes 2000,1000000 --csv $F/disk.csv
python scripts/benches/bench_disk.py --shapes 100,100000000 --beside 100,500000 --csv $F/disk_large.csv
python scripts/benches/bench_clients.py --csv $F/clients.csv
python scripts/benches/bench_all_reduce.py --share 1000,50000 --repeats 25 --csv $F/all_reduce.csv
python scripts/generators/places.py --run
