import { expect } from "vitest";
import { JOB_PATH, type TestX402, type X402Fixture } from "../../../../fixtures/x402.ts";

type Refused = {
  headers: Record<string, string>;
  path?: string;
  body?: string;
  status: number;
  code: string;
};

/** The dry-run refuses what the paid route then refuses, with the same status and code; neither settles anything. */
export async function expectRefusedAlike(
  fixture: X402Fixture,
  x402: TestX402,
  { headers, path = JOB_PATH, body = "hello", status, code }: Refused,
): Promise<void> {
  const { settle } = await fixture.asked();
  for (const route of [`${path}/auth-dry-run`, path]) {
    const answer = await x402.post(headers, { path: route, body });
    expect([route, answer.status, answer.json()["code"]]).toEqual([route, status, code]);
  }
  expect((await fixture.asked()).settle).toBe(settle);
}
