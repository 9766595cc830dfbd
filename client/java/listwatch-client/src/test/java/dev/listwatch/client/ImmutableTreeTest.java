package dev.listwatch.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertIterableEquals;

import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class ImmutableTreeTest {
  @Test
  void itIsAsASortedMapAndOldVersionsStay() {
    Random random = new Random(7);
    TreeMap<String, Integer> model = new TreeMap<>();
    ImmutableTree<String, Integer> tree = ImmutableTree.empty();
    for (int step = 0; step < 20_000; step++) {
      String key = "pod-" + random.nextInt(500);
      ImmutableTree<String, Integer> before = tree;
      Integer held = before.get(key);
      if (random.nextInt(3) == 0) {
        tree = tree.without(key);
        model.remove(key);
      } else {
        tree = tree.with(key, step);
        model.put(key, step);
      }
      assertEquals(held, before.get(key));
      assertEquals(model.get(key), tree.get(key));
      assertEquals(model.size(), tree.size());
      if (step % 500 == 0) {
        assertIterableEquals(model.values(), tree);
      }
    }
  }

  @Test
  void namesInARowMakeNoDeepTree() {
    ImmutableTree<Integer, Integer> tree = ImmutableTree.empty();
    for (int key = 0; key < 200_000; key++) {
      tree = tree.with(key, key);
    }
    assertEquals(200_000, tree.size());
  }
}
