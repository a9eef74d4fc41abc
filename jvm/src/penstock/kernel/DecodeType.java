package penstock.kernel;

import java.io.Serializable;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** How the values of one Spark type are read from JSON: each is the value, null, or the record is set aside. */
abstract class DecodeType implements Serializable {
  /** The type as an error names it. */
  final String name;

  DecodeType(String name) {
    this.name = name;
  }

  /** Reads a value that starts with this byte, which is not that of null. */
  abstract Object value(JsonCursor json, byte first) throws Malformed;

  final Object read(JsonCursor json) throws Malformed {
    byte first = json.peek();
    if (first != 'n') return value(json, first);
    json.literal("null");
    return null;
  }

  final Malformed unexpected(JsonCursor json, byte first) {
    return new Malformed("expected " + name + ", got " + JsonCursor.describe(first), json.at);
  }

  final UTF8String text(JsonCursor json, byte first) throws Malformed {
    if (first != '"') throw unexpected(json, first);
    return json.string();
  }

  final void checkNumber(JsonCursor json, byte first) throws Malformed {
    if (!JsonCursor.startsNumber(first)) throw unexpected(json, first);
  }

  /** @param epoch what a number counts since 1970 where the type is timestamp */
  static DecodeType of(DataType type, Epoch epoch) {
    if (type instanceof StructType) return new DecodeStruct((StructType) type, List.of(), epoch);
    if (type instanceof ArrayType) return new DecodeArray(of(((ArrayType) type).elementType(), epoch));
    if (type instanceof MapType && ((MapType) type).keyType().equals(DataTypes.StringType))
      return new DecodeMap(of(((MapType) type).valueType(), epoch));
    if (type instanceof DecimalType) return new Exact((DecimalType) type);
    if (type.equals(DataTypes.StringType)) return new Text();
    if (type.equals(DataTypes.ByteType)) return new Tiny();
    if (type.equals(DataTypes.ShortType)) return new Small();
    if (type.equals(DataTypes.IntegerType)) return new Int();
    if (type.equals(DataTypes.LongType)) return new Big();
    if (type.equals(DataTypes.DoubleType)) return new Real();
    if (type.equals(DataTypes.FloatType)) return new ShortReal();
    if (type.equals(DataTypes.BooleanType)) return new Truth();
    if (type.equals(DataTypes.BinaryType)) return new Bytes();
    if (type.equals(DataTypes.DateType)) return new Day();
    if (type.equals(DataTypes.TimestampType)) return new Instant(epoch);
    if (type.equals(DataTypes.TimestampNTZType)) return new LocalTime();
    throw new IllegalArgumentException("the decoder has no " + type.simpleString());
  }

  /** The unit of a timestamp that is written as a number. */
  enum Epoch {
    ms(3), s(6);

    /** How many digits behind the point are microseconds. */
    final int microDigits;

    Epoch(int microDigits) {
      this.microDigits = microDigits;
    }
  }

  private static final class Text extends DecodeType {
    Text() { super("string"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      return text(json, first);
    }
  }

  private static final class Truth extends DecodeType {
    Truth() { super("boolean"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      if (first != 't' && first != 'f') throw unexpected(json, first);
      return json.bool();
    }
  }

  private static final class Tiny extends DecodeType {
    Tiny() { super("tinyint"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      checkNumber(json, first);
      return (byte) JsonNumber.whole(json, Byte.MIN_VALUE, Byte.MAX_VALUE, name);
    }
  }

  private static final class Small extends DecodeType {
    Small() { super("smallint"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      checkNumber(json, first);
      return (short) JsonNumber.whole(json, Short.MIN_VALUE, Short.MAX_VALUE, name);
    }
  }

  private static final class Int extends DecodeType {
    Int() { super("int"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      checkNumber(json, first);
      return (int) JsonNumber.whole(json, Integer.MIN_VALUE, Integer.MAX_VALUE, name);
    }
  }

  private static final class Big extends DecodeType {
    Big() { super("bigint"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      checkNumber(json, first);
      return JsonNumber.whole(json, Long.MIN_VALUE, Long.MAX_VALUE, name);
    }
  }

  private static final class Real extends DecodeType {
    Real() { super("double"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      checkNumber(json, first);
      return new JsonNumber(json).toDouble(name);
    }
  }

  private static final class ShortReal extends DecodeType {
    ShortReal() { super("float"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      checkNumber(json, first);
      return new JsonNumber(json).toFloat(name);
    }
  }

  /** Numbers only: a number in quotes says that its producer means text. */
  private static final class Exact extends DecodeType {
    private final int precision;
    private final int scale;

    Exact(DecimalType type) {
      super(type.simpleString());
      precision = type.precision();
      scale = type.scale();
    }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      checkNumber(json, first);
      return new JsonNumber(json).toDecimal(precision, scale, name);
    }
  }

  private static final class Day extends DecodeType {
    Day() { super("date"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      int start = json.at;
      long days = IsoTime.days(text(json, first));
      if (days == IsoTime.NONE) throw new Malformed(IsoTime.DATE, start);
      return (int) days;
    }
  }

  private static final class Instant extends DecodeType {
    private final Epoch epoch;

    Instant(Epoch epoch) {
      super("timestamp");
      this.epoch = epoch;
    }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      if (JsonCursor.startsNumber(first)) {
        JsonNumber number = new JsonNumber(json);
        long micros = number.truncated(epoch.microDigits);
        if (!IsoTime.inRange(micros))
          throw number.unfit(name + ": as " + epoch + " since 1970 it is in no year from 1 to 9999");
        return micros;
      }
      int start = json.at;
      long micros = IsoTime.micros(text(json, first), true);
      if (micros == IsoTime.NONE) throw new Malformed(IsoTime.TIME, start);
      return micros;
    }
  }

  /** Text only, without a zone: what a number counts would need one. */
  private static final class LocalTime extends DecodeType {
    LocalTime() { super("timestamp_ntz"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      int start = json.at;
      long micros = IsoTime.micros(text(json, first), false);
      if (micros == IsoTime.NONE) throw new Malformed(IsoTime.TIME + ", without a zone", start);
      return micros;
    }
  }

  /** Base64 with its padding. */
  private static final class Bytes extends DecodeType {
    Bytes() { super("binary"); }

    @Override Object value(JsonCursor json, byte first) throws Malformed {
      int start = json.at;
      byte[] encoded = text(json, first).getBytes();
      try {
        if (encoded.length % 4 == 0) return Base64.getDecoder().decode(encoded);
      } catch (IllegalArgumentException notBase64) {
        // Told below, with its place.
      }
      throw new Malformed("expected base64", start);
    }
  }
}
