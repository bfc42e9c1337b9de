import { status } from "@grpc/grpc-js";
import type { AppError } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";

/** What gRPC calls each refusal; whatever else fails is INTERNAL. */
const STATUSES: Readonly<Partial<Record<ErrorCode, status>>> = {
  "pricing.request_invalid": status.INVALID_ARGUMENT,
  "pricing.tee_unavailable": status.UNAVAILABLE,
  "pricing.unavailable": status.UNAVAILABLE,
  "job.not_found": status.NOT_FOUND,
};

export function toGrpcStatus({ code, publicDetail }: AppError): { code: status; details: string } {
  return { code: STATUSES[code] ?? status.INTERNAL, details: publicDetail };
}
