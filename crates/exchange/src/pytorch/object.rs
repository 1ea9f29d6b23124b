//! What a pickle describes, and the names it may mention.

/// A value on the stack; objects are indices into the machine's arena.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// No float of a pickle is of interest: learning rates, losses.
    Float,
    Text(&'a str),
    Bytes(&'a [u8]),
    Global(Global),
    Object(usize),
}

impl Value<'_> {
    /// As a size or position.
    pub(super) fn index(self) -> Option<usize> {
        match self {
            Value::Int(number) => usize::try_from(number).ok(),
            _ => None,
        }
    }
}

/// A compound value.
#[derive(Clone, Debug)]
pub(super) enum Object<'a> {
    Tuple(Vec<Value<'a>>),
    List(Vec<Value<'a>>),
    Dict(Vec<(Value<'a>, Value<'a>)>),
    Storage(Storage<'a>),
    Tensor(View<'a>),
    /// Something allowed that holds no weights.
    Opaque,
}

/// A run of elements in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage<'a> {
    pub(super) kind: Kind,
    pub(super) key: &'a str,
}

/// A strided tensor over a storage.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    pub(super) storage: Storage<'a>,
    /// In elements, as the strides.
    pub(super) offset: usize,
    pub(super) size: Vec<usize>,
    pub(super) stride: Vec<usize>,
}

/// Element type of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    F16,
    Bf16,
    F32,
    F64,
    /// Integers and truth values: counters, never weights.
    Count {
        /// Of one element.
        bytes: usize,
    },
}

impl Kind {
    /// Bytes of one element.
    pub(super) fn size(self) -> usize {
        match self {
            Kind::F16 | Kind::Bf16 => 2,
            Kind::F32 => 4,
            Kind::F64 => 8,
            Kind::Count { bytes } => bytes,
        }
    }
}

/// The names that a pickle may mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// `OrderedDict` and its relatives.
    Dict,
    /// `_rebuild_tensor`, `_v2`, `_v3`.
    RebuildTensor,
    /// Gives its first argument, a tensor.
    RebuildParameter,
    /// `torch.Size`.
    Size,
    /// A storage class or element type.
    Storage(Kind),
    /// Harmless and of no interest.
    Inert,
}

/// Looks a name up; `None` for every name that is not allowed.
pub(super) fn global(module: &str, name: &str) -> Option<Global> {
    let count = |bytes| Global::Storage(Kind::Count { bytes });
    Some(match (module, name) {
        ("collections", "OrderedDict" | "defaultdict" | "Counter") => Global::Dict,
        ("builtins" | "__builtin__", "dict") => Global::Dict,
        ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => {
            Global::RebuildTensor
        }
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
            Global::RebuildParameter
        }
        ("torch", "Size") => Global::Size,
        ("torch", "FloatStorage" | "float32") => Global::Storage(Kind::F32),
        ("torch", "DoubleStorage" | "float64") => Global::Storage(Kind::F64),
        ("torch", "HalfStorage" | "float16") => Global::Storage(Kind::F16),
        ("torch", "BFloat16Storage" | "bfloat16") => Global::Storage(Kind::Bf16),
        ("torch", "LongStorage" | "int64" | "uint64") => count(8),
        ("torch", "IntStorage" | "int32" | "uint32") => count(4),
        ("torch", "ShortStorage" | "int16" | "uint16") => count(2),
        ("torch", "CharStorage" | "ByteStorage" | "BoolStorage" | "int8" | "uint8" | "bool") => {
            count(1)
        }
        ("torch.storage", "UntypedStorage" | "TypedStorage") => count(1),
        ("torch", "device") | ("argparse", "Namespace") | ("_codecs", "encode") => Global::Inert,
        ("builtins" | "__builtin__", "set" | "frozenset" | "slice" | "complex") => Global::Inert,
        ("pathlib", "Path" | "PosixPath" | "WindowsPath") => Global::Inert,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar" | "_reconstruct") => {
            Global::Inert
        }
        ("numpy", "dtype" | "ndarray") => Global::Inert,
        _ => return None,
    })
}
