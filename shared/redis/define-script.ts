import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import { isUnknownScript, proverOf, type ScriptCall, type Sent, send } from "./prover.ts";
import type { Decode } from "./reply.ts";
import { fromScript } from "./unreadable.ts";

/** An argument of a script, in ARGV. Booleans are sent as 1 and 0, and undefined as empty text. */
export type Word = string | number | Buffer | boolean | undefined;

type Constant = string | number | boolean;
type Constants = Readonly<Record<string, Constant | Readonly<Record<string, Constant>>>>;

/**
 * Whether a failover may lose the writes of a script.
 *  - `needed`: It must not, because a loss would repeat an effect outside of Redis, or make an answer false. The script
 *    resolves once its writes are proven (prover.ts).
 *  - `reads`: The script writes nothing.
 *  - `expendable`: It may, because lost writes are repeated, or they only affect counts, limits or speed.
 */
export type Proof = "needed" | "reads" | "expendable";

type Definition<Keys extends string, Args extends string, Value> = {
  /** Text of the script, from `import source from "./x.lua"`. */
  source: string;
  keys: Keys;
  args?: Args;
  constants?: Constants;
  proof: Proof;
  /** With "bytes", strings in the reply are Buffers, for replies that contain binary data. Default: "text". */
  strings?: "text" | "bytes";
  reply: Decode<Value>;
};

type Ones<List extends string> = List extends "" | `...${string}`
  ? never
  : List extends `${infer Name}, ${infer Others}`
    ? Name | Ones<Others>
    : List;
type Rest<List extends string, Value> = List extends `${string}...${infer Last}`
  ? Last extends `${infer Items}(${infer Words})`
    ? { readonly [Name in Items]: readonly Readonly<Record<Ones<Words>, Value>>[] }
    : { readonly [Name in Last]: readonly Value[] }
  : unknown;

/** The keys or arguments of one call of a script, by the names in `List`. */
type Given<List extends string, Value> = Readonly<Record<Ones<List>, Value>> & Rest<List, Value>;

/** Runs a script on one connection. */
export type Run<Keys, Args, Reply> = (
  ...given: keyof Args extends never ? [keys: Keys] : [keys: Keys, args: Args]
) => Promise<Reply>;

export type Script<Keys, Args, Reply> = {
  /** The text that Redis gets. */
  readonly lua: string;
  on(redis: Redis): Run<Keys, Args, Reply>;
};

/** The value that a script resolves with. */
export type Reply<Of> = Of extends Script<infer _Keys, infer _Args, infer Value> ? Value : never;

/**
 * Defines a Lua script. `keys` and `args` name its KEYS and ARGV, for the Lua and for each call:
 *
 *   keys: "open, ...others"
 *   args: "holder, leaseMs, ...runs(id, kind)"
 *
 * Three dots mark a name that may come any number of times: an argument, or an item of several arguments. The Lua reads
 * `KEYS.open` and `ARGV.holder`. `FIRST.runs` is the index in ARGV of the first run. `WIDTH.runs` is the number of arguments
 * of each run, which come in the declared order. A name in capitals is a constant. `defineScript` replaces all these names
 * once, so they cost nothing when the script runs. Throws if the Lua uses any other name in capitals.
 *
 * A line `--@include "./y.lua"` is replaced by the text of another file (services/dev/loader.mjs), which may use the same
 * names.
 */
export function defineScript<const Keys extends string, Value, const Args extends string = "">({
  source,
  keys,
  args,
  constants = {},
  proof,
  strings = "text",
  reply,
}: Definition<Keys, Args, Value>): Script<Given<Keys, string>, Given<Args, Word>, Value> {
  const [ofKeys, ofArgs] = [listOf(keys), listOf(args ?? "")];
  const lua = withoutNames(source, ofKeys, ofArgs, constants);
  const sha = createHash("sha1").update(lua).digest("hex");
  return {
    lua,
    on(redis) {
      const run = toRun(redis, proof);
      return async (...[touched, given = {}]: readonly [Values, Values?]) => {
        const words: Sent[] = [sha, 0];
        push(words, ofKeys, touched);
        words[1] = words.length - 2;
        push(words, ofArgs, given);
        return reply(await run({ lua, words, strings }).catch(rethrow));
      };
    },
  };
}

type Values = Readonly<Record<string, unknown>>;

/**
 * Parsed `keys` or `args`. Each name in `ones` is one argument. `rest` is the name after three dots, which may come any
 * number of times.
 */
type List = {
  readonly text: string;
  readonly ones: readonly string[];
  readonly rest: { readonly name: string; readonly words: readonly string[] | undefined } | undefined;
};

function listOf(text: string): List {
  const [, ones = "", name, words] = /^(.*?)(?:(?:^|, )\.\.\.(\w+)(?:\((.*)\))?)?$/.exec(text) ?? [];
  const rest = name === undefined ? undefined : { name, words: words?.split(", ") };
  return { text, ones: ones === "" ? [] : ones.split(", "), rest };
}

function push(sent: Sent[], { ones, rest }: List, given: Values): void {
  for (const name of ones) sent.push(encode(given[name] as Word));
  if (rest === undefined) return;
  const { name, words } = rest;
  if (words === undefined) for (const word of given[name] as readonly Word[]) sent.push(encode(word));
  else
    for (const item of given[name] as readonly Readonly<Record<string, Word>>[])
      for (const word of words) sent.push(encode(item[word]));
}

function encode(word: Word): Sent {
  if (word === undefined) return "";
  return typeof word === "boolean" ? Number(word) : word;
}

/**
 * Matches comments, strings, `local` declarations, and names in capitals. Comments and strings are matched only so that no
 * name in them is replaced.
 */
const TOKEN =
  /--.*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\blocal (?<locals>[\w, ]+)|(?<![.\w])(?<name>[A-Z][A-Z\d_]+)\b(?<field>\.\w+)?/g;

function withoutNames(source: string, keys: List, args: List, constants: Constants): string {
  const names = [...positions("KEYS", keys), ...positions("ARGV", args), ...literals(constants)];
  const known = new Map(names);
  if (known.size < names.length) throw new Error(`a name occurs twice in "${keys.text}" or "${args.text}"`);
  const locals = new Set(["KEYS", "ARGV"]);
  return source.replaceAll(TOKEN, (token: string, ...found: unknown[]) => {
    const { locals: declared, name, field = "" } = found.at(-1) as Partial<Record<string, string>>;
    for (const local of declared?.split(/\W+/) ?? []) locals.add(local);
    if (name === undefined) return token;
    const replaced = known.get(token) ?? (locals.has(name + field) ? token : undefined);
    if (replaced === undefined) throw new Error(`the Lua reads ${token}, which is not declared`);
    return replaced;
  });
}

function positions(table: "KEYS" | "ARGV", { ones, rest }: List): [string, string][] {
  const found = ones.map((name, i): [string, string] => [`${table}.${name}`, `${table}[${i + 1}]`]);
  if (rest === undefined) return found;
  found.push([`FIRST.${rest.name}`, String(ones.length + 1)]);
  if (rest.words !== undefined) found.push([`WIDTH.${rest.name}`, String(rest.words.length)]);
  return found;
}

function literals(constants: Constants): [string, string][] {
  return Object.entries(constants).flatMap(([name, value]) =>
    typeof value === "object"
      ? Object.entries(value).map(([field, inner]): [string, string] => [`${name}.${field}`, literal(inner)])
      : [[name, literal(value)]],
  );
}

function literal(value: Constant): string {
  return typeof value !== "string" ? String(value) : `'${value.replaceAll(/['\\\n]/g, "\\$&")}'`;
}

/**
 * Creates the function that runs a script on a connection. If the script needs a proof and the connection has a prover, the
 * prover runs it. Otherwise Redis' reply is enough.
 */
function toRun(redis: Redis, proof: Proof): (call: ScriptCall) => Promise<unknown> {
  const prover = proof === "needed" ? proverOf(redis) : undefined;
  return prover === undefined ? (call) => evaluate(redis, call) : (call) => prover.run(call);
}

/** Sends a script by its hash, or in full if Redis does not know the script, for example after a restart. */
async function evaluate(redis: Redis, call: ScriptCall): Promise<unknown> {
  try {
    return await send(redis, call, "EVALSHA");
  } catch (error) {
    if (!isUnknownScript(error)) throw error;
  }
  return await send(redis, call, "EVAL");
}

function rethrow(error: unknown): never {
  throw fromScript(error);
}
