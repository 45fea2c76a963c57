// SPDX-License-Identifier: Apache-2.0
/**
 * Micro-benchmarks of one operation each, one group a class: {@code java -cp flyring-bench.jar org.openjdk.jmh.Main
 * GROUP -rf json -rff FILE}.
 */
package io.flyring.bench.jmh;
