/**
 * The Listwatch client: calls, a watcher that never ends by itself, and a reflector.
 *
 * <p>{@link dev.listwatch.client.ListwatchClient} is where to begin. Objects, keys, selectors and
 * requests are the generated messages of {@code dev.listwatch.v1}. Nothing here is {@code null}, and
 * {@code null} is accepted nowhere. Every failed call throws a
 * {@link dev.listwatch.client.ListwatchException}.
 */
package dev.listwatch.client;
