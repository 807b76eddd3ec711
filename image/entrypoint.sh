#!/usr/bin/env bash
# Run what a container of this image is started for: a command with its words, `mock` with options of
# `odradek mock`, or what Spark on Kubernetes says.
#
# The last is `driver` with words of spark-submit's, or `executor`, which is told the rest by variables: see
# BasicDriverFeatureStep and BasicExecutorFeatureStep in Spark's resource-managers/kubernetes.
set -euo pipefail

case "${1-}" in
mock)
    # Published under the same numbers, its ports are those of the host: clients come to localhost.
    shift
    set -- odradek mock --host 0.0.0.0 --port 9092 --control 8082 "$@"
    ;;
driver)
    shift
    set -- spark-submit --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    # Options of the JVM: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
    options=()
    while option=SPARK_JAVA_OPT_${#options[@]} && [ -n "${!option+told}" ]; do
        options+=("${!option}")
    done
    # SPARK_CLASSPATH is spark.executor.extraClassPath; what is shipped with a job comes to the folder of the container.
    classes=${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*:$PWD
    set -- "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "$classes" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
esac

# As process 1 it collects what others leave behind; Python workers outlive the daemon that started them.
exec tini -s -- "$@"
