"""What does each API call do? Names met in real traces of CUDA and ROCm, and near misses."""

import pytest

from decodeprof.model.calls import LAUNCHING, CallKind, bare_name, call_kind

NAMES = {
    CallKind.LAUNCH: """cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel
        cudaLaunchCooperativeKernelMultiDevice cuLaunchKernel cuLaunchKernelEx
        cuLaunchCooperativeKernel hipLaunchKernel hipExtLaunchKernel hipModuleLaunchKernel
        hipExtModuleLaunchKernel hipLaunchCooperativeKernel hipLaunchKernelExC hipLaunchByPtr
        cudaLaunchKernel_v7000 cudaLaunchKernel_ptsz cuLaunchKernel_ptsz""",
    CallKind.GRAPH_LAUNCH: """cudaGraphLaunch cuGraphLaunch hipGraphLaunch cudaGraphLaunch_v10000
        cudaGraphLaunch_ptsz""",
    CallKind.COPY: """cudaMemcpyAsync cudaMemcpy2DAsync cudaMemcpy3DAsync cuMemcpyHtoDAsync_v2
        cuMemcpyDtoHAsync_v2 hipMemcpyAsync cudaMemcpyPeerAsync cudaMemcpyPeer
        cudaMemcpyAsync_v3020""",
    CallKind.BLOCKING_COPY: """cudaMemcpy cudaMemcpy2D cudaMemcpyToSymbol hipMemcpy
        hipMemcpyWithStream cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 hipMemcpyDtoH""",
    CallKind.SET: """cudaMemsetAsync cudaMemset cuMemsetD32Async hipMemsetAsync
        cudaMemsetAsync_v3020""",
    CallKind.SYNC: """cudaStreamSynchronize cudaDeviceSynchronize cudaEventSynchronize
        cudaThreadSynchronize cuStreamSynchronize cuEventSynchronize cuCtxSynchronize
        hipStreamSynchronize hipDeviceSynchronize hipEventSynchronize
        cudaStreamSynchronize_v3020 cudaStreamSynchronize_ptsz""",
    CallKind.STREAM_WAIT: "cudaStreamWaitEvent cuStreamWaitEvent hipStreamWaitEvent",
    CallKind.EVENT_RECORD: """cudaEventRecord cudaEventRecordWithFlags cuEventRecord
        hipEventRecord""",
    CallKind.ALLOCATE: """cudaMalloc cudaMallocAsync cudaMallocManaged cudaHostAlloc
        cudaMallocHost cuMemAlloc_v2 cuMemCreate cuMemMap hipMalloc hipHostMalloc""",
    CallKind.FREE: "cudaFree cudaFreeHost cuMemFree_v2 cuMemUnmap hipFree hipHostFree",
    # None of these puts work on a device or waits for one, whatever their names suggest.
    CallKind.OTHER: """cudaStreamIsCapturing cudaFuncSetAttribute cudaGetErrorString
        cudaPeekAtLastError hipPointerGetAttribute cudaDeviceGetAttribute cudaEventQuery
        cudaStreamQuery cudaLaunchHostFunc cudaGraphInstantiate cudaStreamBeginCapture
        cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaEventElapsedTime cudaMemGetInfo
        cudaFreeAsync cuMemFreeAsync
        cudaFreeAsync_ptsz myLaunchKernel cudaLaunchKernelXYZ aten::mm
        __hipPushCallConfiguration""",
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, text in NAMES.items() for name in text.split()]
)
def test_kind_by_name(name: str, kind: CallKind) -> None:
    assert call_kind(name) is kind


def test_an_empty_name_is_other() -> None:
    assert call_kind("") is CallKind.OTHER


def test_every_kind_is_told_apart_here() -> None:
    assert set(NAMES) == set(CallKind)


def test_what_enqueues_work() -> None:
    assert {kind.name for kind in LAUNCHING} == {"LAUNCH", "GRAPH_LAUNCH", "COPY", "SET"}


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaMemcpyAsync_v3020_ptsz", "cudaMemcpyAsync"),
        ("cuMemAlloc_v2", "cuMemAlloc"),
        ("cudaLaunchKernel", "cudaLaunchKernel"),
        ("my_variant_of", "my_variant_of"),
    ],
)
def test_suffixes_are_taken_off(name: str, bare: str) -> None:
    assert bare_name(name) == bare
