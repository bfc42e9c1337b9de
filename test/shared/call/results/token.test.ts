import crypto from "node:crypto";
import { expect, test, vi } from "vitest";
import { createResultTokens } from "../../../../shared/call/results/token.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";

const CALL = `c_${"0".repeat(32)}`;
const [first, second, third] = ["a", "b", "c"].map((name) => new Secret(`secret ${name} of these tests`)) as [
  Secret,
  Secret,
  Secret,
];

test("all secrets are compared, whether the first, the last or none is right", () => {
  const secrets = [first, second, third] as const;
  const uses = secrets.map((secret) => vi.spyOn(secret, "reveal"));
  const tokens = createResultTokens(secrets);
  const compared = (token: string) => {
    for (const use of uses) use.mockClear();
    const isGood = tokens.isOf(CALL, token);
    return { isGood, times: uses.map(({ mock }) => mock.calls.length) };
  };
  for (const secret of secrets)
    expect(compared(createResultTokens([secret]).of(CALL))).toEqual({ isGood: true, times: [1, 1, 1] });
  const right = tokens.of(CALL);
  const wrongEarly = `rt_${right[3] === "A" ? "B" : "A"}${right.slice(4)}`;
  const wrongLate = `${right.slice(0, -2)}${right.at(-2) === "A" ? "B" : "A"}${right.at(-1)}`;
  for (const token of [wrongEarly, wrongLate, `rt_${"A".repeat(43)}`])
    expect(compared(token)).toEqual({ isGood: false, times: [1, 1, 1] });
});

test("a token is valid for one call, and only for results", () => {
  const tokens = createResultTokens([first]);
  const token = tokens.of(CALL);
  expect(token).toMatch(/^rt_[A-Za-z0-9_-]{43}$/);
  expect(tokens.isOf(`c_${"1".repeat(32)}`, token)).toBe(false);
  expect(createResultTokens([second]).isOf(CALL, token)).toBe(false);
  const bare = crypto.createHmac("sha256", first.bytes()).update(CALL).digest("base64url");
  expect(tokens.isOf(CALL, `rt_${bare}`)).toBe(false);
});
