import { JOB_PATH } from "../../fixtures/x402.ts";

/** What the job at JOB_PATH takes, in the tests of input schemas. */
export const ORDER = {
  type: "object",
  properties: {
    items: { type: "array", items: { type: "integer" }, maxItems: 10 },
    code: { type: "string", pattern: "^(a+)+$" },
  },
  required: ["items"],
};

export const DECLARED = {
  price_wei: "1000000000000000",
  name: "order",
  description: "Takes an order",
  input_schema: ORDER,
  input_example: { items: [1, 2] },
};

/** A gateway's options: the job at JOB_PATH declares its input. */
export const declaring = { prices: { "7": DECLARED } };

export const DRY_RUN = `${JOB_PATH}/auth-dry-run`;
export const FITS = '{"items":[3]}';
export const UNFIT = '{"items":[3,"4"]}';
/** Whose check takes too long. */
export const ENDLESS = JSON.stringify({ items: [], code: `${"a".repeat(60)}b` });

/** A schema of so many bytes as JSON, which `{}` fits. */
export function schemaOfBytes(bytes: number) {
  const schema = { type: "object", description: "" };
  return { ...schema, description: "x".repeat(bytes - JSON.stringify(schema).length) };
}
