"""What to do next about what the page's alerts find. NAME stands for the pipeline."""

from __future__ import annotations

TITLES = {
    "RecordsLost": "Records are lost",
    "RecordsDuplicated": "Records are doubled",
    "PipelineFailed": "Gave up",
    "PipelineSilent": "Silent",
    "BatchesFailing": "Batches failed again and again",
    "TopicUnseen": ("Kafka did not answer"),
    "BrokerGone": "A broker was gone",
    "PartitionsOffline": "Partitions had no leader",
    "PartitionsUnderReplicated": "Partitions lacked copies",
    "LagHigh": "Far behind",
    "LagGrowing": "Fell behind",
    "PressureHigh": "At its limit",
    "LatencyObjectiveMissed": "Late results",
    "DeadLettersHigh": "Many records set aside",
    "CheckpointSlow": "Slow checkpoints",
    "LookupStale": ("Reference data out of date"),
}

NEXT = {
    "RecordsLost": (
        "Keep the sinks, the topic and the checkpoint as they are; `penstock audit NAME` tells which "
        "batches lack rows, and docs/recovery.md the ways on."
    ),
    "RecordsDuplicated": (
        "Keep the sinks as they are; `penstock audit NAME` tells which batches are there twice. "
        "At-least-once sinks may repeat the batch under way at a crash: readers take the highest "
        "version."
    ),
    "PipelineFailed": (
        "Going on would have done harm, or several attempts did not help; `penstock check NAME` says "
        "what mends it. The pipeline goes on from its checkpoint."
    ),
    "PipelineSilent": (
        "Look at its log and at the machine: a long pause of garbage collection, a frozen disk or a "
        "suspended process say nothing either. `penstock check NAME` looks at what it needs."
    ),
    "BatchesFailing": (
        "The reason is in the events below, the whole of it in the log of Spark; mend it, and the "
        "pipeline goes on from its checkpoint."
    ),
    "TopicUnseen": (
        "Look at the brokers' logs and the network between; short spells at an election are normal."
    ),
    "BrokerGone": (
        "Find out why it died in its own log, and bring it back before a second one goes: with fewer "
        "in- sync copies than the topic wants, nothing more is acknowledged."
    ),
    "PartitionsOffline": (
        "Bring back a broker that holds a copy. Do not elect an unclean leader: that loses what was "
        "acknowledged."
    ),
    "PartitionsUnderReplicated": "Wait until the copies have caught up before another broker is stopped.",
    "LagHigh": (
        "See below where pressure starts: more cores or a faster sink help there. `penstock lag NAME` "
        "tells which partitions wait and when they are through."
    ),
    "LagGrowing": (
        "More came in than was processed. Give the stage where pressure starts more room, raise "
        "source.max_batch if batches are short, or slow the producers down."
    ),
    "PressureHigh": (
        "The stage that is named takes most of a batch's time: that is the one to give cores, memory "
        "or writers to. The rest waits for it, and making it faster gains nothing."
    ),
    "LatencyObjectiveMissed": (
        "See in the plot whether it was lag (records waited), a slow sink or long batches; just after "
        "a start it is the JVM, which compiles what it runs."
    ),
    "DeadLettersHigh": (
        "`penstock dead-letters list NAME` tells why, by reason; if a producer changed its format, "
        "mend the spec and replay them."
    ),
    "CheckpointSlow": (
        "The disk of the checkpoint is slow or full, or the state grew: see the plots of state and of "
        "the phases."
    ),
    "LookupStale": (
        "The file or query of the lookup cannot be read; batches go on with the version they have."
    ),
}
