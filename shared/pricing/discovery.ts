import type { JobIds } from "../call/job-ids.ts";
import type { JobFacts } from "../config/job-pricing-toml.ts";
import type { X402Toml } from "../config/x402-toml.ts";
import { DECLARED_BYTES_MAX, type Declared, declaredBytes } from "../platform/json-schema/job-input.ts";
import { compileSchema, type JsonSchema } from "../platform/json-schema/json-schema.ts";
import { settlementEndpoint } from "./prices.ts";

/** The parts of a configuration that describe the seller. */
export type ShopFacts = Pick<X402Toml, "public_url" | "shop">;

/**
 * Limit of x402 on a service's name. A longer name is left out, not cut: by default the name is the host of `public_url`, and a
 * part of a host could be another host.
 */
const SERVICE_NAME_CHARS_MAX = 32;

/**
 * Describes a job as a resource of x402. The members serve both versions of the protocol. `serviceName` is the name of the
 * seller.
 */
export function resourceOf(job: JobIds & JobFacts, { public_url, shop }: ShopFacts) {
  const { jobIndex, serviceId, description = `Job ${jobIndex} of service ${serviceId}` } = job;
  const { name, tags, icon_url } = shop;
  return {
    url: settlementEndpoint(public_url, job),
    method: "POST",
    description,
    mimeType: "application/json",
    ...(name.length <= SERVICE_NAME_CHARS_MAX && { serviceName: name }),
    ...(tags.length > 0 && { tags }),
    ...(icon_url !== undefined && { iconUrl: icon_url }),
  };
}

/** The parts of a job that describe its input and output. */
type Job = { input?: Declared | undefined; output?: Declared | undefined };

/** A 402's description of a job's input and output. */
export type Discovery = {
  /** `extensions.bazaar` of x402 version 2, with the fields of `@x402/extensions/bazaar`. */
  bazaar: { info: { input: object; output?: object }; schema: JsonSchema };
  /** `outputSchema` of x402 version 1. */
  outputSchema: { input: object; output?: object };
};

const known = new WeakMap<Declared, Discovery | "none">();

/**
 * Describes a job's input and output for a 402. The description includes a JSON schema (2020-12) of itself, which contains the
 * job's own schemas, and facilitators check the description with it. The output is left out if its schema cannot be included, or
 * if it makes the description too large. Returns undefined if no description is possible. The result is computed once for each
 * job.
 */
export function discoveryOf({ input, output }: Job): Discovery | undefined {
  const key = input ?? output;
  if (key === undefined) return undefined;
  const discovery =
    known.get(key) ?? toDiscovery(input, output) ?? (input && toDiscovery(input, undefined)) ?? "none";
  known.set(key, discovery);
  return discovery === "none" ? undefined : discovery;
}

/** Whether the schemas and examples are small enough for a 402 and for the list of jobs. */
function isShort({ input, output }: Job): boolean {
  return declaredBytes(input) + declaredBytes(output) <= DECLARED_BYTES_MAX;
}

/**
 * Returns the schemas and examples of a job, under the names that they have in job_pricing.toml. Returns no members if they are
 * too large.
 */
export function inlineDeclared(job: Job) {
  if (!isShort(job)) return {};
  const { input, output } = job;
  return {
    ...(input && { input_schema: input.schema, input_example: input.example }),
    ...(output && { output_schema: output.schema, output_example: output.example }),
  };
}

const HTTP_INPUT = { type: "http", method: "POST", bodyType: "json" } as const;
/** The input of a job that takes any body. */
const ANY_INPUT: Declared = { schema: {}, example: {} };

function toDiscovery(input: Declared = ANY_INPUT, output: Declared | undefined): Discovery | undefined {
  const body = schemaWithin(input.schema, "#/properties/input/properties/body");
  const result = output && schemaWithin(output.schema, "#/properties/output/properties/example");
  if (!isShort({ input, output }) || body === undefined || (output && result === undefined)) return undefined;
  const info = {
    input: { ...HTTP_INPUT, body: input.example },
    ...(output && { output: { type: "json", example: output.example } }),
  };
  const envelope = toEnvelope(body, result);
  const compiled = compileSchema(envelope);
  if (!compiled.ok || compiled.check(info, JSON.stringify(info).length) !== undefined) return undefined;
  const outputSchema = {
    input: { ...HTTP_INPUT, body: input.schema },
    ...(output && { output: output.schema }),
  };
  return { bazaar: { info, schema: envelope }, outputSchema };
}

function toEnvelope(body: JsonSchema, result: JsonSchema | undefined): JsonSchema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    properties: {
      input: {
        type: "object",
        properties: {
          type: { type: "string", const: "http" },
          method: { type: "string", enum: ["POST"] },
          bodyType: { type: "string", enum: ["json", "form-data", "text"] },
          body,
        },
        required: ["type", "method", "bodyType", "body"],
        additionalProperties: false,
      },
      ...(result && {
        output: {
          type: "object",
          properties: { type: { type: "string" }, example: result },
          required: ["type"],
        },
      }),
    },
    required: ["input"],
  };
}

/**
 * Adapts a schema so that it can be a part of another document, at the JSON pointer `place`. Returns undefined if that is not
 * possible.
 */
export function schemaWithin({ $schema: _, ...own }: JsonSchema, place: string): JsonSchema | undefined {
  return isSelfContained(own) ? (withMovedRefs(own, place) as JsonSchema) : undefined;
}

/**
 * Whether each `$ref` and `$id` refers to a place within the schema itself. Facilitators refuse a schema that refers to other
 * documents.
 */
function isSelfContained(node: unknown): boolean {
  if (typeof node !== "object" || node === null) return true;
  return Object.entries(node).every(([key, value]) => {
    const isNamed = !Array.isArray(node) && (key === "$ref" || key === "$id");
    return isNamed ? typeof value === "string" && value.startsWith("#") : isSelfContained(value);
  });
}

/** Keywords of JSON schemas whose values are data. A `$ref` in such a value is no reference. */
const DATA = ["const", "enum", "default", "examples"];

/**
 * Adapts the references of a schema that becomes a part of another document at `place`. The JSON pointer in a reference begins at
 * the root of the document, so `place` must come before it.
 */
function withMovedRefs(node: unknown, place: string): unknown {
  if (typeof node !== "object" || node === null) return node;
  if (Array.isArray(node)) return node.map((each) => withMovedRefs(each, place));
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => {
      const isRef = (key === "$ref" || key === "$dynamicRef") && typeof value === "string";
      if (isRef && /^#(?:\/|$)/.test(value)) return [key, `${place}${value.slice(1)}`];
      return [key, DATA.includes(key) ? value : withMovedRefs(value, place)];
    }),
  );
}
