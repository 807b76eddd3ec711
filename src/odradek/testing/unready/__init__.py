"""A broker that is as unready as a real Kafka: what has just appeared is there some answers later."""
