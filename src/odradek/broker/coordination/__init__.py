"""The common part of the coordinators' shells: a log over the replicas, leaders, answers that come later."""
