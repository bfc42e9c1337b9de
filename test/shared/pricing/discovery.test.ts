import type { PaymentPayload } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import {
  bazaarResourceServerExtension,
  type DiscoveryExtension,
  declareDiscoveryExtension,
  extractDiscoveryInfo,
  extractDiscoveryInfoV1,
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
} from "@x402/extensions/bazaar";
import { expect, test } from "vitest";
import { toJobInput } from "../../../shared/platform/json-schema/job-input.ts";
import { discoveryOf } from "../../../shared/pricing/discovery.ts";
import { schemaOfBytes } from "../../services/x402-gateway/job-inputs.ts";

const DRAFT_07 = "http://json-schema.org/draft-07/schema#";
const TEXT = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

function discovery(schema: object, example: unknown) {
  const made = toJobInput(schema, example);
  if (!made.ok) throw new Error(made.problem.message);
  return discoveryOf(made.input);
}

test("a job's input stands in extensions.bazaar as the official package writes it for a POST of JSON", () => {
  const example = { text: "hello" };
  const declared = declareDiscoveryExtension({ bodyType: "json", input: example, inputSchema: TEXT });
  const context = { method: "POST", adapter: { getPath: () => "/" } };
  const theirs = bazaarResourceServerExtension.enrichDeclaration?.(declared["bazaar"], context);
  expect(discovery(TEXT, example)?.bazaar).toEqual(theirs);
});

test.each([
  ["of 2020-12", TEXT, { text: "a" }],
  [
    "that names its dialect",
    { $schema: "https://json-schema.org/draft/2020-12/schema", ...TEXT },
    { text: "a" },
  ],
  ["of draft-07", { $schema: DRAFT_07, ...TEXT }, { text: "a" }],
  [
    "with references in it",
    {
      $defs: {
        text: { type: "string" },
        any: { $anchor: "any", type: "array", items: { $ref: "#/$defs/text" } },
      },
      type: "object",
      properties: { a: { $ref: "#any" }, next: { $ref: "#" } },
      default: { $ref: "#/no/reference" },
    },
    { a: ["b"], next: { a: [] } },
  ],
  ["of a list", { type: "array", items: { type: "string" } }, ["a"]],
])(
  "the official package finds a schema %s valid, and reads from it what a body is like",
  (_what, schema, body) => {
    const found = discovery(schema, body);
    const bazaar = found?.bazaar as unknown as DiscoveryExtension;
    expect(validateDiscoveryExtension(bazaar)).toEqual({ valid: true });
    expect(validateDiscoveryExtensionSpec({ ...bazaar })).toEqual({ valid: true });
    const resource = { url: "https://jobs.example.com/x402/jobs/1/7" };
    const payment = { x402Version: 2, resource, extensions: { bazaar } } as unknown as PaymentPayload;
    const read = extractDiscoveryInfo(payment, {} as PaymentRequirementsV1);
    expect(read?.discoveryInfo.input).toEqual({ type: "http", method: "POST", bodyType: "json", body });
    const spoilt = structuredClone(bazaar) as { info: { input: { body: unknown } } };
    spoilt.info.input.body = 7;
    expect(validateDiscoveryExtension(spoilt as DiscoveryExtension).valid).toBe(false);
  },
);

test("version 1's reader finds the schema in outputSchema.input", () => {
  const { outputSchema } = discovery(TEXT, { text: "a" }) ?? {};
  const read = extractDiscoveryInfoV1({ outputSchema } as unknown as PaymentRequirementsV1);
  expect(read?.input).toEqual({ type: "http", method: "POST", bodyType: "json", body: TEXT });
});

test("a schema above 1.5 KiB, or an example above half a KiB, is no part of a 402", () => {
  expect(discovery(schemaOfBytes(1536), {})).toBeDefined();
  expect(discovery(schemaOfBytes(1537), {})).toBeUndefined();
  const textOf = (bytes: number) => ({ text: "a".repeat(bytes - '{"text":""}'.length) });
  expect(discovery(TEXT, textOf(512))).toBeDefined();
  expect(discovery(TEXT, textOf(513))).toBeUndefined();
});

test.each([
  ["that names itself", { $id: "https://example.com/a", type: "string" }, "a"],
  [
    "that refers to its dialect",
    { $schema: DRAFT_07, $ref: `${DRAFT_07}/definitions/nonNegativeInteger` },
    1,
  ],
  [
    "of draft-07 that means something else in 2020-12",
    { $schema: DRAFT_07, items: [{ type: "string" }] },
    ["a"],
  ],
  ["with a property of a keyword's name", { properties: { $ref: { type: "string" } } }, { $ref: "a" }],
])("a schema %s, which facilitators would refuse, is no part of a 402", (_what, schema, example) => {
  expect(discovery(schema, example)).toBeUndefined();
});
