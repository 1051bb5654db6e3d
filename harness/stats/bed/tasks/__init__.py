"""The tasks of the bed, one a file; each is a table of scores on planted truths."""

from harness.stats.bed.task import Task
from harness.stats.bed.tasks import intervals, starts, stopping

TASKS: dict[str, Task] = {task.name: task for task in (intervals.TASK, stopping.TASK, starts.TASK)}
