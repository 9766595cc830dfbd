package dev.listwatch.client;

import dev.listwatch.v1.ListRequest;
import dev.listwatch.v1.ListResponse;
import dev.listwatch.v1.Resource;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A consistent list, ordered by (namespace, name). The first page is there; the others are asked for while
 * it is iterated, each time anew.
 *
 * <p>Iterating throws an {@link ExpiredException} when the list's revision is compacted between two pages.
 * The rest of it cannot be had then: list again.
 */
public final class Listing implements Iterable<Resource> {
  private final Function<ListRequest, ListResponse> call;
  private final ListRequest request;
  private final ListResponse first;

  Listing(Function<ListRequest, ListResponse> call, ListRequest request) {
    this.call = call;
    this.request = request;
    this.first = call.apply(request);
  }

  /**
   * The one revision that all pages show.
   *
   * @return a revision of the store
   */
  public long revision() {
    return first.getRevision();
  }

  /**
   * Starts a watch of the same selector right after this list.
   *
   * @return the token of {@link #revision()}
   */
  public ResumeToken resumeToken() {
    return new ResumeToken(first.getResumeToken());
  }

  /**
   * The objects one after the other.
   *
   * @return a sequential stream, which throws as the iterator does
   */
  public Stream<Resource> stream() {
    return StreamSupport.stream(spliterator(), false);
  }

  @Override
  public Iterator<Resource> iterator() {
    return new Iterator<>() {
      private ListResponse page = first;
      private int next;

      @Override
      public boolean hasNext() {
        while (next == page.getResourcesCount()) {
          String token = page.getNextPageToken();
          if (token.isEmpty()) {
            return false;
          }
          ListResponse following = call.apply(request.toBuilder().setPageToken(token).build());
          if (following.getNextPageToken().equals(token)) {
            throw ListwatchException.protocolBreach("a page's token leads to the same page");
          }
          page = following;
          next = 0;
        }
        return true;
      }

      @Override
      public Resource next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        return page.getResources(next++);
      }
    };
  }
}
