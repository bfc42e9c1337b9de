import { jsonSizeProblem } from "../../platform/text/bounded-json.ts";
import { parseJson } from "../../platform/text/parse-json.ts";
import { parseExactJson } from "../exact-json.ts";

/**
 * Value of an expression. A whole number that a double might round is a bigint. A JSON object is a map, because a
 * JavaScript object has inherited members that an expression could read.
 */
export type Value = null | boolean | string | number | bigint | readonly Value[] | ReadonlyMap<string, Value>;

/** Limit on the digits of a number. Longer numbers are slow to convert. */
const DIGITS_MAX = 100;

/** Parses a JSON body. If a member is repeated, the last one counts, as in JavaScript. */
export function parseValue(body: Buffer): { value: Value } | { problem: string } {
  const tooLarge = jsonSizeProblem(body);
  if (tooLarge !== undefined) return { problem: tooLarge };
  const text = body.toString("utf8");
  const rounded = parseJson(text);
  if (rounded === undefined) return { problem: "is not JSON" };
  try {
    return { value: toValue(rounded, /[0-9]{16}/.test(text) ? parseExactJson(body) : rounded) };
  } catch (error) {
    if (error instanceof RangeError) return { problem: error.message };
    throw error;
  }
}

/**
 * Converts parsed JSON to a value. `exact` is the same JSON as `rounded`, but has the digits of each whole number that
 * was rounded.
 */
function toValue(rounded: unknown, exact: unknown): Value {
  if (typeof rounded === "number") return typeof exact === "string" ? toInteger(exact) : rounded;
  if (Array.isArray(rounded)) {
    const elements = exact as readonly unknown[];
    return rounded.map((each, index) => toValue(each, elements[index]));
  }
  if (typeof rounded !== "object" || rounded === null) return rounded as null | boolean | string;
  const members = exact as Readonly<Record<string, unknown>>;
  return new Map(Object.entries(rounded).map(([name, each]) => [name, toValue(each, members[name])]));
}

function toInteger(digits: string): bigint {
  if (digits.length <= DIGITS_MAX) return BigInt(digits);
  throw new RangeError(`has a number of more than ${DIGITS_MAX} digits`);
}

/** Charges the steps of one comparison. `characters` is the length of the text that it reads. */
export type Spend = (characters: number) => void;

/**
 * Returns whether two values are equal. A double and a bigint are equal if they are the same number. Values of
 * different types differ.
 */
export function isEqual(a: Value, b: Value, spend: Spend): boolean {
  spend(0);
  if (typeof a === "string" && typeof b === "string") {
    if (a.length === b.length) spend(a.length);
    return a === b;
  }
  if (isNumeric(a) && isNumeric(b)) return order(a, b) === 0;
  if (isList(a) && isList(b))
    return a.length === b.length && a.every((each, index) => isEqual(each, b[index] ?? null, spend));
  if (a instanceof Map && b instanceof Map) return isEqualMap(a, b, spend);
  return a === b;
}

function isEqualMap(a: ReadonlyMap<string, Value>, b: ReadonlyMap<string, Value>, spend: Spend): boolean {
  if (a.size !== b.size) return false;
  for (const [name, value] of a) {
    const other = b.get(name);
    if (other === undefined || !isEqual(value, other, spend)) return false;
  }
  return true;
}

/**
 * Returns a negative number, zero or a positive number if `a` is less than, equal to or greater than `b`. Undefined if
 * the two have no order.
 */
export function compare(a: Value, b: Value, spend: Spend): number | undefined {
  if (typeof a === "string" && typeof b === "string") {
    spend(Math.min(a.length, b.length));
    return order(a, b);
  }
  return isNumeric(a) && isNumeric(b) ? order(a, b) : undefined;
}

function order<Ordered extends string | number | bigint>(a: Ordered, b: Ordered): number {
  if (a < b) return -1;
  return a > b ? 1 : 0;
}

export function isNumeric(value: Value): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

/**
 * Returns whether the text contains the part, by the algorithm of Knuth, Morris and Pratt. In repetitive text of a MiB,
 * `String.includes` takes seconds to find a part of 10,000 characters.
 */
export function contains(text: string, part: string): boolean {
  const borders = bordersOf(part);
  let matched = 0;
  for (let at = 0; at < text.length && matched < part.length; at++) {
    while (matched > 0 && text.charCodeAt(at) !== part.charCodeAt(matched))
      matched = borders[matched - 1] ?? 0;
    if (text.charCodeAt(at) === part.charCodeAt(matched)) matched += 1;
  }
  return matched === part.length;
}

/**
 * Returns, for each prefix of the text, the length of its longest proper suffix that is also a prefix. After a mismatch,
 * `contains` goes on with that many characters matched, and not from the beginning of the part.
 */
function bordersOf(text: string): Uint32Array {
  const borders = new Uint32Array(text.length);
  let length = 0;
  for (let at = 1; at < text.length; at++) {
    while (length > 0 && text.charCodeAt(at) !== text.charCodeAt(length)) length = borders[length - 1] ?? 0;
    if (text.charCodeAt(at) === text.charCodeAt(length)) length += 1;
    borders[at] = length;
  }
  return borders;
}
