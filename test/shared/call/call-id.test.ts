import { expect, test } from "vitest";
import {
  callIdFrom,
  callIdInPartitionOf,
  callIdOfDelivery,
  callIdOfSignedDelivery,
} from "../../../shared/call/call-id.ts";

// These values were computed by Python's hashlib. Redis and clients keep such ids, so no release may change how they are
// computed.
test.each([
  [["a", "b"], "c_facdde7abf1eac5b301273ab2e282f79"],
  [["", "ü", "日本語"], "c_f04dd7512e184b30ef7806f353fba4ad"],
] as const)("the id of the call of %j is for ever %s", (parts, id) => {
  expect(callIdFrom(...parts)).toBe(id);
});

test("the id of a delivery depends on whether a signature covers the delivery's id", () => {
  expect(callIdOfDelivery("/hooks/a", "evt_1")).toBe("c_edb25bc9f2a9ab98f912dadfd5b94290");
  expect(callIdOfSignedDelivery("/hooks/a", "evt_1")).toBe("c_832b647bc41099df00dea939cc962a8d");
});

test("an id in the partition of another begins like that one, and differs by its own parts", () => {
  const parent = "c_abc00000000000000000000000000000";
  expect(callIdInPartitionOf(parent, "a", "b")).toBe("c_abcdde7abf1eac5b301273ab2e282f79");
});
