# docker build --tag robustfl-bench .
# docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/runs" robustfl-bench attack=ipm aggregator=krum
FROM python:3.13-slim
COPY . /source
RUN pip install --no-cache-dir --constraint /source/constraints.txt /source && rm -rf /source
ENV MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /runs
ENTRYPOINT ["robustfl-bench"]
