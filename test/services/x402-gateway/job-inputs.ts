import { JOB_PATH } from "../../fixtures/x402.ts";

/** Input schema of the job at JOB_PATH. */
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

/** Output schema of a job. */
export const PRINTED = {
  output_schema: { type: "object", properties: { printed: { type: "integer" } }, required: ["printed"] },
  output_example: { printed: 2 },
};

/** Gateway options in which the job at JOB_PATH declares its input. */
export const declaring = { prices: { "7": DECLARED } };

export const DRY_RUN = `${JOB_PATH}/auth-dry-run`;
export const FITS = '{"items":[3]}';
export const UNFIT = '{"items":[3,"4"]}';
/** A body whose check takes too long. */
export const ENDLESS = JSON.stringify({ items: [], code: `${"a".repeat(60)}b` });

/** Returns a schema of this many bytes as JSON, which `{}` matches. */
export function schemaOfBytes(bytes: number) {
  const schema = { type: "object", description: "" };
  return { ...schema, description: "x".repeat(bytes - JSON.stringify(schema).length) };
}
