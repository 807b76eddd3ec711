"""Clients of six projects, each driven through the same faults: docs/faults_and_clients.md."""
