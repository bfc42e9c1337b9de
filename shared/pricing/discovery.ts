import type { JobIds } from "../call/job-ids.ts";
import type { JobFacts } from "../config/job-pricing-toml.ts";
import type { JobInput } from "../platform/json-schema/job-input.ts";
import { compileSchema, type JsonSchema } from "../platform/json-schema/json-schema.ts";
import { settlementEndpoint } from "./prices.ts";

/** What is sold, as both versions of x402 describe it. */
export function resourceOf(job: JobIds & JobFacts, publicUrl: string) {
  const { jobIndex, serviceId, name, description = `Job ${jobIndex} of service ${serviceId}` } = job;
  return {
    url: settlementEndpoint(publicUrl, job),
    description,
    mimeType: "application/json",
    ...(name !== undefined && { serviceName: name }),
  };
}

/** What a 402 tells of a job's input. */
export type Discovery = {
  /** `extensions.bazaar` of version 2, with the fields of `@x402/extensions/bazaar`. */
  bazaar: { info: { input: object }; schema: JsonSchema };
  /** `outputSchema` of version 1. */
  outputSchema: { input: object };
};

/** Clients send the extensions of a 402 back in the header of their payment, which is bounded. */
const SCHEMA_BYTES_MAX = 1536;
const EXAMPLE_BYTES_MAX = 512;

const known = new WeakMap<JobInput, Discovery | "none">();

/**
 * How a job's input stands in a 402; undefined if schema or example is too large for it, or if the schema means nothing as a part of
 * another one of 2020-12, which is what facilitators check. It is worked out once for each input.
 */
export function discoveryOf(input: JobInput | undefined): Discovery | undefined {
  if (input === undefined) return undefined;
  const discovery = known.get(input) ?? toDiscovery(input) ?? "none";
  known.set(input, discovery);
  return discovery === "none" ? undefined : discovery;
}

/** Of an input what is small enough to stand where it is not asked for, in the words of job_pricing.toml. */
export function inlineInput({ schema, example }: JobInput) {
  return {
    ...(bytesOf(schema) <= SCHEMA_BYTES_MAX && { input_schema: schema }),
    ...(bytesOf(example) <= EXAMPLE_BYTES_MAX && { input_example: example }),
  };
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

const HTTP_INPUT = { type: "http", method: "POST", bodyType: "json" } as const;

function toDiscovery(input: JobInput): Discovery | undefined {
  const { schema, example } = input;
  const isInline = Object.keys(inlineInput(input)).length === 2;
  if (!isInline || !isSelfContained(schema)) return undefined;
  const { $schema: _, ...own } = schema;
  const info = { input: { ...HTTP_INPUT, body: example } };
  const envelope = toEnvelope(withMovedRefs(own) as JsonSchema);
  const compiled = compileSchema(envelope);
  if (!compiled.ok || compiled.check(info, bytesOf(info)) !== undefined) return undefined;
  return { bazaar: { info, schema: envelope }, outputSchema: { input: { ...HTTP_INPUT, body: schema } } };
}

/** Where the job's schema stands in the envelope. */
const PLACE = "#/properties/input/properties/body";

function toEnvelope(body: JsonSchema): JsonSchema {
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
    },
    required: ["input"],
  };
}

/** Facilitators refuse a schema in which something with these names is anything but a reference within the schema. */
function isSelfContained(node: unknown): boolean {
  if (typeof node !== "object" || node === null) return true;
  return Object.entries(node).every(([key, value]) => {
    const isNamed = !Array.isArray(node) && (key === "$ref" || key === "$id");
    return isNamed ? typeof value === "string" && value.startsWith("#") : isSelfContained(value);
  });
}

/** Keywords whose values are data. */
const DATA = ["const", "enum", "default", "examples"];

/** A reference by pointer begins at the root, which is the envelope's now. */
function withMovedRefs(node: unknown): unknown {
  if (typeof node !== "object" || node === null) return node;
  if (Array.isArray(node)) return node.map(withMovedRefs);
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => {
      const isRef = (key === "$ref" || key === "$dynamicRef") && typeof value === "string";
      if (isRef && /^#(?:\/|$)/.test(value)) return [key, `${PLACE}${value.slice(1)}`];
      return [key, DATA.includes(key) ? value : withMovedRefs(value)];
    }),
  );
}
