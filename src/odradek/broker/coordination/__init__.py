"""What the coordinators' shells share: a log over the replicas, who leads what, answers that come later."""
