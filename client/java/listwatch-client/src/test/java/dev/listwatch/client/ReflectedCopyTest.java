package dev.listwatch.client;

import static dev.listwatch.client.Messages.object;
import static dev.listwatch.client.Messages.point;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.listwatch.client.ReflectedCopy.Applied;
import dev.listwatch.v1.DeleteCause;
import dev.listwatch.v1.Resource;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ReflectedCopyTest {
  private final ReflectedCopy<String> copy =
      new ReflectedCopy<>(resource -> resource.getValue().toStringUtf8());

  @BeforeEach
  void holdsAAndB() {
    copy.apply(new Event.InitBegin());
    copy.apply(new Event.InitApply(object("a", 1)));
    copy.apply(new Event.InitApply(object("b", 2)));
    assertEquals(List.of(), copy.publish());
    assertEquals(Applied.SWAPPED, copy.apply(new Event.InitDone(point(2))));
    assertEquals(List.of("a none>1", "b none>2"), published());
  }

  @Test
  void aHalfStateIsThrownAway() {
    copy.apply(new Event.NetBegin());
    copy.apply(apply(object("a", 5)));
    copy.apply(new Event.Disconnected(Disconnect.by(Disconnect.Cause.ENDED), java.time.Duration.ZERO));
    copy.apply(new Event.Resumed(point(2)));
    assertEquals(List.of(), published());
    assertEquals("[pods/default/a@1, pods/default/b@2]", held());
  }

  @Test
  void anUnchangedObjectStaysTheVerySameAndIsToldToNoOne() {
    var before = copy.current().get(key("a"));
    copy.apply(new Event.InitBegin());
    copy.apply(new Event.InitApply(object("a", 1)));
    copy.apply(new Event.InitApply(object("c", 3)));
    copy.apply(new Event.InitDone(point(3)));
    assertEquals(List.of("b 2>none", "c none>3"), published());
    assertSame(before, copy.current().get(key("a")));
  }

  @Test
  void whatCameAndWentIsNoChange() {
    copy.apply(apply(object("c", 3)));
    copy.apply(delete(object("c", 4)));
    assertEquals(List.of(), published());
    assertEquals(4, copy.newestRevision());
  }

  @Test
  void aLateDeletionIsPassedOver() {
    copy.apply(delete(object("b", 1)));
    assertEquals(List.of(), published());
    copy.apply(delete(object("b", 3)));
    assertEquals(List.of("b 2>none"), published());
  }

  @Test
  void aManifestKeepsWhatItNamesAndContradictsWhatIsNotHeld() {
    copy.apply(new Event.ManifestBegin());
    assertEquals(Applied.FINE, copy.apply(new Event.Unchanged(object("a", 1))));
    copy.apply(new Event.CaughtUp(point(4)));
    assertEquals(List.of("b 2>none"), published());
    assertEquals(Applied.CONTRADICTION, copy.apply(new Event.Unchanged(object("a", 2))));
    assertEquals(Applied.CONTRADICTION, copy.apply(new Event.Unchanged(object("b", 2))));
  }

  @Test
  void anotherUidIsAChangeThatShowsBoth() {
    copy.apply(apply(object("a", 5).toBuilder().setUid("anew").build()));
    KeyChange<String> change = copy.publish().get(0);
    assertEquals("uid-a", change.before().orElseThrow().uid());
    assertEquals("anew", change.after().orElseThrow().uid());
  }

  @Test
  void whatCannotBeDecodedIsHeldAllTheSame() {
    ReflectedCopy<Integer> strict =
        new ReflectedCopy<>(resource -> Integer.valueOf(resource.getValue().toStringUtf8()));
    strict.apply(apply(object("a", 1)));
    Reflected<Integer> held = strict.current().get(key("a"));
    assertTrue(held.decodeError().isPresent());
    assertThrows(IllegalStateException.class, held::value);
    assertEquals("a1", held.resource().getValue().toStringUtf8());
  }

  private static ObjectKey key(String name) {
    return new ObjectKey("pods", "default", name);
  }

  private static Event apply(Resource object) {
    return new Event.Apply(object, Optional.empty(), Event.Change.MODIFIED);
  }

  private static Event delete(Resource object) {
    return new Event.Delete(object, Optional.empty(), DeleteCause.DELETE_CAUSE_REQUEST);
  }

  private List<String> published() {
    return copy.publish().stream()
        .map(it -> it.key().name() + " " + revision(it.before()) + ">" + revision(it.after()))
        .toList();
  }

  private static String revision(Optional<Reflected<String>> object) {
    return object.map(it -> Long.toString(it.revision())).orElse("none");
  }

  private String held() {
    return java.util.stream.StreamSupport.stream(copy.current().spliterator(), false)
        .toList()
        .toString();
  }
}
