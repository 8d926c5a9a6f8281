import { handleCheckCall } from '../../src/listeners/decision/grpc/check.js';
import { readCheckRequest, writeCheckResponse } from '../../src/listeners/decision/grpc/messages.js';
import type { Services } from '../../src/pipeline/services.js';
import { type GrpcReply, grpcReplyOf } from './grpc.js';

/**
 * Calls Check without a connection.
 * @param maxSize limit of a request head, in bytes
 */
export async function checkByGrpc(services: Services, maxSize: number, message: Buffer): Promise<GrpcReply> {
  const answer = new Promise<Buffer>((resolve, reject) => {
    handleCheckCall(services, maxSize, {
      request: readCheckRequest(message),
      peer: { remoteAddress: '127.0.0.1' },
      destroyed: false,
      headersSent: false,
      answer: (response) => resolve(writeCheckResponse(response)),
      destroy: () => reject(new Error('no decision')),
    });
  });
  return grpcReplyOf(await answer);
}
