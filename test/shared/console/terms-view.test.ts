import { expect, test } from "vitest";
import { toTermsView } from "../../../shared/console/payment-view.ts";

const TERMS = { service_id: 16_777_217, job_index: 3, valid_after: "0", valid_before: "1893456000" };

test("the terms of a payment name their job as every view does, and have ISO 8601 times", () => {
  expect(toTermsView(TERMS)).toEqual({
    ...{ service_id: 16_777_217, job_id: 3 },
    ...{ valid_after: "1970-01-01T00:00:00.000Z", valid_before: "2030-01-01T00:00:00.000Z" },
  });
});

test.each(["253402300800", String(2n ** 256n - 1n)])(
  "a time beyond the year 9999, which a payer may sign, is null: %s",
  (valid_before) => {
    expect(toTermsView({ ...TERMS, valid_before })).toMatchObject({ valid_before: null });
  },
);
