"""What the JVM side needs: a JDK found or installed, jars fetched and checked, the kernel compiled."""

from penstock.toolchain.archive import archive_options, ensure_archive
from penstock.toolchain.jars import ensure_jars
from penstock.toolchain.java import Java, ensure_java, find_java
from penstock.toolchain.kernel import ensure_kernel

__all__ = [
    "Java",
    "archive_options",
    "ensure_archive",
    "ensure_jars",
    "ensure_java",
    "ensure_kernel",
    "find_java",
]
