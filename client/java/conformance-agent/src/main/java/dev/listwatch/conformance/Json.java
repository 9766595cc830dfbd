package dev.listwatch.conformance;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import dev.listwatch.client.BackoffBounds;
import dev.listwatch.client.Disconnect;
import dev.listwatch.client.Event;
import dev.listwatch.client.ListwatchException;
import dev.listwatch.client.Point;
import dev.listwatch.client.Reflected;
import dev.listwatch.client.ReflectorStatus;
import dev.listwatch.client.ResumeToken;
import dev.listwatch.client.Start;
import dev.listwatch.client.WatchOptions;
import dev.listwatch.v1.CatchUp;
import dev.listwatch.v1.DeliveryMode;
import dev.listwatch.v1.Resource;
import dev.listwatch.v1.View;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;

/** Between the agent's protocol and the client's types. */
final class Json {
  private static final JsonFormat.Printer PRINTER =
      JsonFormat.printer().omittingInsignificantWhitespace();

  private Json() {}

  static <B extends Message.Builder> B read(JsonElement json, B into) {
    try {
      JsonFormat.parser().merge(json.toString(), into);
      return into;
    } catch (InvalidProtocolBufferException error) {
      throw new IllegalArgumentException(error.getMessage(), error);
    }
  }

  static JsonElement of(Message message) {
    try {
      return JsonParser.parseString(PRINTER.print(message));
    } catch (InvalidProtocolBufferException error) {
      throw new IllegalArgumentException(error.getMessage(), error);
    }
  }

  static Duration duration(JsonElement millis) {
    return Duration.ofNanos(Math.round(millis.getAsDouble() * 1e6));
  }

  private static double millis(Duration duration) {
    return duration.toNanos() / 1e6;
  }

  static JsonObject error(ListwatchException error) {
    JsonObject json = error(error.code().name(), error.serverMessage());
    json.addProperty("reason", error.reason());
    JsonObject metadata = new JsonObject();
    error.metadata().forEach(metadata::addProperty);
    json.add("metadata", metadata);
    error.retryAfter().ifPresent(delay -> json.addProperty("retry_after", millis(delay)));
    return json;
  }

  static JsonObject error(String code, String message) {
    JsonObject json = new JsonObject();
    json.addProperty("code", code);
    json.addProperty("reason", "");
    json.addProperty("message", message);
    json.add("metadata", new JsonObject());
    json.add("retry_after", JsonNull.INSTANCE);
    return json;
  }

  static JsonObject event(Event event) {
    JsonObject json = new JsonObject();
    json.addProperty("event", name(event.getClass().getSimpleName()));
    if (event instanceof Event.AtPoint at) {
      Point point = at.point();
      json.addProperty("revision", point.revision());
      json.addProperty("resume_token", point.resumeToken().text());
      json.addProperty("latest_revision", point.latestRevision());
    } else if (event instanceof Event.InitApply apply) {
      json.add("object", of(apply.object()));
    } else if (event instanceof Event.Apply apply) {
      addObjects(json, apply.object(), apply.previous());
      json.addProperty("change", name(apply.change().name()));
    } else if (event instanceof Event.Delete delete) {
      addObjects(json, delete.object(), delete.previous());
      json.addProperty("cause", delete.cause().name());
    } else if (event instanceof Event.Unchanged unchanged) {
      json.add("object", of(unchanged.object()));
    } else if (event instanceof Event.Disconnected disconnected) {
      Disconnect reason = disconnected.reason();
      json.addProperty("cause", name(reason.cause().name()));
      reason.error().ifPresent(error -> json.add("error", error(error)));
      json.addProperty("retry_in", millis(disconnected.retryIn()));
    }
    return json;
  }

  private static void addObjects(JsonObject json, Resource object, Optional<Resource> previous) {
    json.add("object", of(object));
    previous.ifPresent(before -> json.add("previous", of(before)));
  }

  /** {@code InitApply} and {@code GOING_AWAY} as {@code init_apply} and {@code going_away}. */
  private static String name(String javaName) {
    return javaName.replaceAll("(?<=[a-z])(?=[A-Z])", "_").toLowerCase(Locale.ROOT);
  }

  static JsonObject state(ReflectorStatus<?> status) {
    JsonObject json = new JsonObject();
    json.addProperty("ready", status.ready());
    json.addProperty("stale", status.stale());
    json.addProperty("revision", status.snapshot().revision());
    JsonObject objects = new JsonObject();
    for (Reflected<?> object : status.snapshot()) {
      objects.addProperty(
          object.key().namespace() + "/" + object.key().name(), object.revision());
    }
    json.add("objects", objects);
    json.add(
        "stopped", status.stopped().<JsonElement>map(Json::error).orElse(JsonNull.INSTANCE));
    return json;
  }

  static JsonElement version(Optional<? extends Reflected<?>> object) {
    if (object.isEmpty()) {
      return JsonNull.INSTANCE;
    }
    JsonObject json = new JsonObject();
    json.addProperty("uid", object.get().uid());
    json.addProperty("revision", object.get().revision());
    return json;
  }

  static WatchOptions options(JsonObject command) {
    WatchOptions options = WatchOptions.DEFAULT;
    if (!command.has("options")) {
      return options;
    }
    for (var option : command.getAsJsonObject("options").entrySet()) {
      JsonElement value = option.getValue();
      options =
          switch (option.getKey()) {
            case "start" -> options.withStart(start(value.getAsJsonObject()));
            case "view" -> options.withView(View.valueOf(value.getAsString()));
            case "delivery_mode" ->
                options.withDeliveryMode(DeliveryMode.valueOf(value.getAsString()));
            case "catch_up" -> options.withCatchUp(CatchUp.valueOf(value.getAsString()));
            case "send_previous" -> options.withPrevious(value.getAsBoolean());
            case "bookmark_interval" -> options.withBookmarkInterval(duration(value));
            case "first_response_timeout" -> options.withFirstResponseTimeout(duration(value));
            case "progress_timeout" -> options.withProgressTimeout(duration(value));
            case "backoff" -> options.withBackoff(backoff(value.getAsJsonObject()));
            case "jitter" -> {
              double draw = value.getAsDouble();
              yield options.withRandomness(() -> draw);
            }
            case "on_expired" ->
                options.withOnExpired(
                    WatchOptions.OnExpired.valueOf(value.getAsString().toUpperCase(Locale.ROOT)));
            default -> throw new IllegalArgumentException("no such option: " + option.getKey());
          };
    }
    return options;
  }

  private static Start start(JsonObject json) {
    if (json.has("resume_token")) {
      return new Start.After(new ResumeToken(json.get("resume_token").getAsString()));
    }
    if (json.has("after_revision")) {
      return new Start.AfterRevision(json.get("after_revision").getAsLong());
    }
    return json.has("now") ? new Start.Now() : new Start.InitialState();
  }

  private static BackoffBounds backoff(JsonObject json) {
    BackoffBounds usual = BackoffBounds.DEFAULT;
    return new BackoffBounds(
        json.has("initial") ? duration(json.get("initial")) : usual.initial(),
        json.has("factor") ? json.get("factor").getAsDouble() : usual.factor(),
        json.has("max") ? duration(json.get("max")) : usual.max());
  }
}
