import { expect } from "vitest";
import type { Engine, Wire } from "../../../../fixtures/pricing.ts";
import { type Answer, send } from "../../../../support/http.ts";

export const hex = (bytes: unknown) => `0x${Buffer.from(bytes as Buffer).toString("hex")}`;

/** Converts a gRPC request to the body of the same request over HTTP. */
export function toJson({ proof_of_work, challenge_timestamp, require_tee, requester, inputs_hash }: Wire) {
  const bytes = {
    proof_of_work: hex(proof_of_work),
    requester: hex(requester),
    inputs_hash: hex(inputs_hash),
  };
  return { challenge_timestamp, require_tee, ...bytes };
}

/** Requests a quote over HTTP. */
export function post(engine: Engine, request: Wire, json: object = toJson(request)): Promise<Answer> {
  const path = `/pricing/jobs/${request.service_id}/${request.job_index}/quote`;
  return send(engine.http.address, { path, body: JSON.stringify(json) });
}

/** Checks that a refusal over HTTP is a problem document with the message of gRPC. */
export async function expectRefused(
  engine: Engine,
  request: Wire,
  expected: { status: number; code: string; grpc: number },
): Promise<Answer> {
  const { details, ...rest } = await engine.ask(request);
  const answer = await post(engine, request);
  const { status, code, grpc } = expected;
  expect([answer.status, rest.code]).toEqual([status, grpc]);
  expect(answer.headers["content-type"]).toBe("application/problem+json");
  expect(answer.json()).toMatchObject({ code, detail: details, error: details, status });
  return answer;
}
