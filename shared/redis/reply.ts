/** Converts a script's reply into the value for its caller. Throws if the reply does not have the declared form. */
export type Decode<Value> = (reply: unknown) => Value;

/** Ignores the reply. */
export const nothing: Decode<void> = () => {};

/** Decodes text, even if the script's strings come as bytes. */
export const text: Decode<string> = (reply) => {
  if (typeof reply === "string") return reply;
  return Buffer.isBuffer(reply) ? reply.toString() : unexpected(reply, "text");
};

export const bytes: Decode<Buffer> = (reply) => (Buffer.isBuffer(reply) ? reply : unexpected(reply, "bytes"));

/** Decodes a Lua number, which Redis truncates to an integer. */
export const integer: Decode<number> = (reply) =>
  typeof reply === "number" ? reply : unexpected(reply, "an integer");

/** Decodes a number that Redis stores as text, such as a field or a score. */
export const numeric: Decode<number> = (reply) => {
  const number = Number(text(reply));
  return Number.isNaN(number) ? unexpected(reply, "a number") : number;
};

/** Decodes 1 as true and 0 as false. */
export const flag: Decode<boolean> = (reply) =>
  reply === 1 || reply === 0 ? reply === 1 : unexpected(reply, "1 or 0");

/** Decodes an optional value: Lua's nil and false become undefined. */
export function optional<Value>(decode: Decode<Value>): Decode<Value | undefined> {
  return (reply) => (reply === null || reply === undefined ? undefined : decode(reply));
}

/** Decodes one of these texts or numbers. */
export function oneOf<const Value extends string | number>(...values: readonly Value[]): Decode<Value> {
  return (reply) => {
    const found = Buffer.isBuffer(reply) ? reply.toString() : reply;
    return values.find((value) => value === found) ?? unexpected(reply, values.join(" or "));
  };
}

export function list<Value>(decode: Decode<Value>): Decode<Value[]> {
  return (reply) => arrayOf(reply).map(decode);
}

/** Decodes an array with one element for each decoder. It may be shorter, because Lua leaves out nil at the end of an array. */
export function tuple<Values extends readonly unknown[]>(
  ...decoders: { readonly [At in keyof Values]: Decode<Values[At]> }
): Decode<Values> {
  return (reply) => {
    const places = arrayOf(reply);
    if (places.length > decoders.length) unexpected(reply, `an array of ${decoders.length}`);
    return decoders.map((decode, i) => decode(places[i])) as unknown as Values;
  };
}

function arrayOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : unexpected(reply, "an array");
}

/** Throws the error of an unexpected reply. Scripts with their own decoder use it too. */
export function unexpected(reply: unknown, wanted: string): never {
  const found = Buffer.isBuffer(reply) ? reply.toString() : JSON.stringify(reply);
  throw new Error(`a Redis script returned ${String(found).slice(0, 200)} instead of ${wanted}`);
}
