import { fileURLToPath } from "node:url";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  loadFileDescriptorSetFromBuffer,
  loadSync,
  type MethodDefinition,
  type PackageDefinition,
  type ServiceDefinition,
} from "@grpc/proto-loader";

const OPTIONS = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };
const REFLECTION = "grpc.reflection.v1.ServerReflection";
const proto = fileURLToPath(
  new URL(
    "../../node_modules/@grpc/reflection/build/proto/grpc/reflection/v1/reflection.proto",
    import.meta.url,
  ),
);

type Reflection = {
  listServicesResponse?: { service: { name: string }[] };
  fileDescriptorResponse?: { fileDescriptorProto: Buffer[] };
  errorResponse?: { errorMessage: string };
};

export type Unary = { code: status; details: string; response?: Record<string, unknown> };

/** Creates a client that learns the server's interface from the server (grpc.reflection.v1), as grpcurl does. */
export function reflectedClient(address: string) {
  const client = new Client(address, credentials.createInsecure());
  const reflection = (
    loadSync(proto, { ...OPTIONS, keepCase: false, oneofs: true })[REFLECTION] as ServiceDefinition
  )["ServerReflectionInfo"] as MethodDefinition<object, Reflection>;

  function reflect(question: object): Promise<Reflection> {
    const { path, requestSerialize, responseDeserialize } = reflection;
    const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize);
    return new Promise((resolve, reject) => {
      stream.on("data", resolve);
      stream.on("error", reject);
      stream.write(question);
      stream.end();
    });
  }

  async function describe(service: string): Promise<PackageDefinition> {
    const { fileDescriptorResponse, errorResponse } = await reflect({ fileContainingSymbol: service });
    if (fileDescriptorResponse === undefined) throw new Error(errorResponse?.errorMessage ?? "no answer");
    const files = fileDescriptorResponse.fileDescriptorProto.flatMap((file) => [
      Buffer.of(0x0a, ...varint(file.length)),
      file,
    ]);
    return loadFileDescriptorSetFromBuffer(Buffer.concat(files), OPTIONS);
  }

  async function methodOf(service: string, method: string): Promise<MethodDefinition<object, object>> {
    const found = ((await describe(service))[service] as ServiceDefinition)[method];
    if (found === undefined) throw new Error(`${service} has no ${method}`);
    return found as MethodDefinition<object, object>;
  }

  return {
    client,
    describe,
    methodOf,
    services: async () =>
      ((await reflect({ listServices: "*" })).listServicesResponse?.service ?? []).map(({ name }) => name),
    /** Makes one unary call. Resolves with any status. */
    async call(
      service: string,
      method: string,
      request: object,
      headers: Readonly<Record<string, string>> = {},
    ): Promise<Unary> {
      const metadata = new Metadata();
      for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
      const { path, requestSerialize, responseDeserialize } = await methodOf(service, method);
      return new Promise((resolve) => {
        const deadline = Date.now() + 15_000;
        const answer = (error: ServiceError | null, response?: object) =>
          resolve(
            error === null
              ? { code: status.OK, details: "", response: response as Record<string, unknown> }
              : { code: error.code, details: error.details },
          );
        client.makeUnaryRequest(
          path,
          requestSerialize,
          responseDeserialize,
          request,
          metadata,
          { deadline },
          answer,
        );
      });
    },
    close: () => client.close(),
  };
}

/** Encodes a number as Protocol Buffers' base-128 varint. */
function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}
