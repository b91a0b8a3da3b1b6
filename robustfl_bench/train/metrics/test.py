"""Loss and accuracy on the test set, each true cluster with the model that most of its honest clients trained."""

from robustfl_bench.train.metric import Metric

METRICS = (
    Metric("test_loss", "Test loss", lambda evaluation: evaluation.test.loss, better=-1),
    Metric("test_accuracy", "Test accuracy", lambda evaluation: evaluation.test.accuracy, "%", 1, 100, 1),
)
