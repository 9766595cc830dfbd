package dev.listwatch.client;

import dev.listwatch.v1.Bookmark;

/**
 * A place in the history from which a watch can go on.
 *
 * @param revision everything up to this revision has been told
 * @param resumeToken starts a watch of the same selector here; empty if the server gave none
 * @param latestRevision the store's newest revision when this was sent
 * @param coalesced how many changes {@code DELIVERY_MODE_LATEST} left out since the last point
 */
public record Point(long revision, ResumeToken resumeToken, long latestRevision, long coalesced) {
  static Point of(Bookmark bookmark) {
    return new Point(
        bookmark.getRevision(),
        new ResumeToken(bookmark.getResumeToken()),
        bookmark.getLatestRevision(),
        bookmark.getCoalescedCount());
  }
}
