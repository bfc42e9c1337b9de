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
import { compileDeclared } from "../../../shared/platform/json-schema/job-input.ts";
import { discoveryOf } from "../../../shared/pricing/discovery.ts";
import { schemaOfBytes } from "../../services/x402-gateway/job-inputs.ts";

const DRAFT_07 = "http://json-schema.org/draft-07/schema#";
const WORDS = { type: "object", properties: { words: { type: "integer" } } };
const TEXT = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

function declared(schema: object, example: unknown) {
  const made = compileDeclared(schema, example);
  if (!made.ok) throw new Error(made.problem.message);
  return made.compiled;
}

const discovery = (schema: object, example: unknown) => discoveryOf({ input: declared(schema, example) });

test.each([
  ["input", {}],
  ["input and output", { output: { example: { words: 3 }, schema: WORDS } }],
])(
  "a job's %s have the same form in extensions.bazaar as the official package writes for a POST of JSON",
  (_, output) => {
    const example = { text: "hello" };
    const theirs = declareDiscoveryExtension({
      ...{ bodyType: "json", input: example, inputSchema: TEXT },
      ...output,
    });
    const context = { method: "POST", adapter: { getPath: () => "/" } };
    const found = discoveryOf({ input: declared(TEXT, example), ...output });
    expect(found?.bazaar).toEqual(
      bazaarResourceServerExtension.enrichDeclaration?.(theirs["bazaar"], context),
    );
  },
);

test("the official package reads the output of a job whose input may be anything, and refuses another one", () => {
  const output = declared(
    { type: "array", items: { $ref: "#/$defs/n" }, $defs: { n: { type: "integer" } } },
    [1],
  );
  const { bazaar, outputSchema } = discoveryOf({ output }) ?? {};
  const theirs = bazaar as unknown as DiscoveryExtension;
  expect(validateDiscoveryExtension(theirs)).toEqual({ valid: true });
  expect(validateDiscoveryExtensionSpec({ ...bazaar })).toEqual({ valid: true });
  expect(theirs.info.output).toEqual({ type: "json", example: [1] });
  expect(outputSchema?.output).toEqual(output.schema);
  const spoilt = structuredClone(theirs) as { info: { output: { example: unknown } } };
  spoilt.info.output.example = ["1"];
  expect(validateDiscoveryExtension(spoilt as DiscoveryExtension).valid).toBe(false);
});

test("an output whose schema facilitators would refuse is left out, and the input stays", () => {
  const input = declared(TEXT, { text: "a" });
  const output = declared({ $id: "https://example.com/a", type: "string" }, "a");
  expect(discoveryOf({ input, output })).toEqual(discovery(TEXT, { text: "a" }));
  expect(discoveryOf({ output })).toBeUndefined();
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
  "the official package accepts a schema %s, and reads the form of a body from it",
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

test("the reader of version 1 finds the schema in outputSchema.input", () => {
  const { outputSchema } = discovery(TEXT, { text: "a" }) ?? {};
  const read = extractDiscoveryInfoV1({ outputSchema } as unknown as PaymentRequirementsV1);
  expect(read?.input).toEqual({ type: "http", method: "POST", bodyType: "json", body: TEXT });
});

test("a schema and its example above 2560 bytes are left out of a 402", () => {
  expect(discovery(schemaOfBytes(2558), {})).toBeDefined();
  expect(discovery(schemaOfBytes(2559), {})).toBeUndefined();
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
])("a schema %s, which facilitators would refuse, is left out of a 402", (_what, schema, example) => {
  expect(discovery(schema, example)).toBeUndefined();
});
