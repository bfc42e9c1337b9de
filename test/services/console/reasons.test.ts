import { expect, test } from "vitest";
import { openApi } from "../../support/openapi.ts";

type Schema = { $ref?: string; anyOf?: Schema[]; oneOf?: Schema[]; required?: string[] };
type Operation = {
  "x-postern-role"?: string;
  requestBody?: { content: { "application/json": { schema: Schema } } };
};

/** Operations that need no reason, because they change nothing, or the run itself records who began it. */
const WITHOUT_A_REASON = [
  "DELETE /api/v1/bulk/{run_id}",
  "POST /api/v1/bulk/{run_id}/resume",
  "POST /api/v1/endpoints/close",
  "POST /api/v1/payments/audits",
  "POST /api/v1/payments/refund-checks",
  "POST /api/v1/payments/{call_id}/reconcile",
];

/** Returns the alternative schemas of a schema. */
function choicesOf({ $ref, anyOf, oneOf, ...schema }: Schema): Schema[] {
  if ($ref !== undefined)
    return choicesOf(openApi.components.schemas[$ref.split("/").at(-1) ?? ""] as Schema);
  return (anyOf ?? oneOf)?.flatMap(choicesOf) ?? [schema];
}

function asksWhy({ requestBody }: Operation): boolean {
  if (requestBody === undefined) return false;
  return choicesOf(requestBody.content["application/json"].schema).every(({ required = [] }) =>
    required.includes("reason"),
  );
}

test("every act on calls, jobs and money needs a reason, except starting, checking and ending a run", () => {
  const acting = Object.entries(openApi.paths).flatMap(([path, operations]) =>
    Object.entries(operations as Record<string, Operation>).flatMap(([method, operation]) =>
      operation["x-postern-role"] === "operator"
        ? [{ name: `${method.toUpperCase()} ${path}`, operation }]
        : [],
    ),
  );
  const without = acting.filter(({ operation }) => !asksWhy(operation)).map(({ name }) => name);
  expect(without.toSorted()).toEqual(WITHOUT_A_REASON);
  expect(acting.length).toBeGreaterThan(without.length);
});
