package dev.listwatch.conformance;

import com.google.gson.JsonObject;
import dev.listwatch.client.KeyChange;
import dev.listwatch.client.Reflector;
import dev.listwatch.client.ReflectorListener;
import dev.listwatch.v1.Resource;

/** A reflector whose changes are written as lines. */
final class ToldReflector implements ReflectorListener<Resource>, AutoCloseable {
  private final String name;
  private final Reflector<Resource> reflector;
  private final Lines lines;

  ToldReflector(String name, Reflector<Resource> reflector, Lines lines) {
    this.name = name;
    this.reflector = reflector;
    this.lines = lines;
    reflector.subscribe(this);
  }

  Reflector<Resource> reflector() {
    return reflector;
  }

  @Override
  public void changed(KeyChange<Resource> change) {
    JsonObject json = new JsonObject();
    json.addProperty("key", change.key().namespace() + "/" + change.key().name());
    json.add("old", Json.version(change.before()));
    json.add("new", Json.version(change.after()));
    JsonObject line = new JsonObject();
    line.add("change", json);
    write(line);
  }

  @Override
  public void synced() {
    JsonObject line = new JsonObject();
    line.addProperty("synced", true);
    write(line);
  }

  @Override
  public void close() {
    reflector.close();
  }

  private void write(JsonObject line) {
    line.addProperty("reflector", name);
    lines.write(line);
  }
}
