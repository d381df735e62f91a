"""Made-up output of gpu_bench and of ncu, for the tests of the scripts around them."""

HEADER = (
    '"ID","Process ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","lts__t_bytes.sum",'
    '"lts__t_sectors_srcunit_tex.sum"\n"","","","byte","byte","byte","sector"\n'
)
FORWARD = '"{}","7","void forward_kernel<__half, 128>(ForwardArgs)","4,194,304","1,024","5,000,000","131,072"\n'
MERGE = '"{}","7","merge_kernel(MergeArgs)","2,048","512","4,096","64"\n'
PLAN = {
    "suite": "packs", "case": "1,10/4096,416", "heads": "32/8", "dtype": "f16", "page_size": 32, "method": "default",
    "policy": "auto", "chosen": "trunk", "kv_bytes_distinct": 4194304, "kv_bytes_read": 8388608, "qo_bytes": 163840,
    "partial_bytes": 0, "device": "some GPU", "commit": "0123456789ab", "items": 8,
}  # fmt: skip


def measured(**changes):
    return {
        "suite": "pat", "case": "1,10/4096,416", "heads": "32/8", "dtype": "f16", "page_size": 32, "method": "default",
        "policy": "auto", "chosen": "trunk", "mode": "persistent", "merge": "separate", "tile": "auto", "items": 8,
        "partials": 80, "max_err": 1e-4, "us": 20.0, "us_p10": 19.0, "us_p90": 21.0, "floor_us": 10.0, "x_floor": 2.0,
        "forward_us": 12.0, "bubble_share": 0.25, "resolve_us": 4.0, "upload_us": 7.0, "run_us": 6.0, "plan_us": 30.0,
        "predicted_us": 18.0,
        "kv_bytes_distinct": 4670000, "kv_bytes_read": 9340000, "qo_bytes": 0, "partial_bytes": 0, "passed": True,
        "commit": "0123456789ab", **changes,
    }  # fmt: skip


def pair(us, flat_us, **changes):
    """A case by the default and by `flat`."""
    case = {"requests": 7, "nodes": 9, **changes}
    return [measured(us=us, **case), measured(us=flat_us, method="flat", policy="flat", chosen="flat", **case)]


GROWTH = pair(20.0, 40.0, suite="growth", factor="batch", value=1) + pair(
    30.0, 90.0, suite="growth", factor="batch", value=4, case="batch 4", floor_us=11.0
)
